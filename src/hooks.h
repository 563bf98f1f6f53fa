/*
 * hooks.h
 *		What idgen does when a database or the extension is dropped.
 */
#ifndef IDGEN_HOOKS_H
#define IDGEN_HOOKS_H

extern void idgen_hooks_install(void);

#endif							/* IDGEN_HOOKS_H */
