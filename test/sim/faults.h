/*
 * faults.h
 *		What goes wrong, and how it ends.
 */
#ifndef IDGEN_SIM_FAULTS_H
#define IDGEN_SIM_FAULTS_H

#include "world.h"

extern void faults_begin(World *world);
extern void faults_end(World *world);
extern int64_t faults_recovery_us(const World *world);
extern bool faults_all_issue(World *world, bool complains);

#endif							/* IDGEN_SIM_FAULTS_H */
