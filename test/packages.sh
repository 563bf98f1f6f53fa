#!/usr/bin/env bash
# Fetches programs of others that "make clients" runs against idgen, as packages of the distribution
# and of npm, and unpacks them in a cache outside the tree (servers_cache in test/lib.sh). Nothing is
# installed, and the machine's package lists are left alone. What cannot be had is named, and that is
# no failure: there may be no network, or no Debian.
#
#   test/packages.sh          fetches what is not there yet
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=test/apt.sh
. "$(dirname "$0")/apt.sh"

find_postgres || die 'no PostgreSQL server development files, see test/setup.sh'
major=$("$PG_CONFIG" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
packages=(prometheus prometheus-postgres-exporter "postgresql-$major-pgaudit" "postgresql-$major-partman"
	python3-asyncpg python3-sqlalchemy python3-greenlet python3-alembic python3-mako python3-markupsafe
	python3-psycopg2 python3-django python3-asgiref python3-sqlparse python3-tz)
# Of npm, those that belong together in one line; MikroORM's have to be of one version.
npm_packages=(pg@8 postgres@3 drizzle-orm@0.45 'typeorm@1 reflect-metadata@0.2' sequelize@6 knex@3 kysely@0.28
	'@mikro-orm/core@6.6.16 @mikro-orm/postgresql@6.6.16 @mikro-orm/knex@6.6.16')
cache=$(servers_cache)
prefix=$cache/packages

skip() { echo "packages: $*" >&2; }

# One after the other: a package that is missing is no reason to do without the rest.
fetch()
{
	local package file
	for package in "${packages[@]}"; do
		[ ! -e "$prefix/.have/$package" ] || continue
		mkdir -p "$work/$package"
		(cd "$work/$package" && apt_in "$work/apt" apt-get download "$package") >>"$work/out" 2>&1 ||
			{ skip "$package cannot be had"; continue; }
		for file in "$work/$package"/*.deb; do
			dpkg -x "$file" "$prefix" || { skip "$package cannot be unpacked"; continue 2; }
		done
		mkdir -p "$prefix/.have"
		touch "$prefix/.have/$package"
	done
}

fetch_from_npm()
{
	local group names have
	command -v npm >/dev/null || { skip 'npm is not installed'; return; }
	for group in "${npm_packages[@]}"; do
		have=$prefix/.have/npm-${group//[\/ ]/-}
		[ ! -e "$have" ] || continue
		mkdir -p "$prefix/npm" "$prefix/.have"
		[ -e "$prefix/npm/package.json" ] || echo '{ "private": true }' >"$prefix/npm/package.json"
		read -r -a names <<<"$group"
		# No script of a package is run.
		(cd "$prefix/npm" && npm install --ignore-scripts --no-audit --no-fund --cache "$work/npm" "${names[@]}") >>"$work/out" 2>&1 ||
			{ skip "$group cannot be had from npm"; continue; }
		touch "$have"
	done
}

mkdir -p "$prefix"
# Of two that come at the same time, one fetches.
exec 9>"$cache/lock"
! command -v flock >/dev/null || flock 9
work=$(mktemp -d "$cache/work-XXXXXX")
trap 'rm -rf "$work"' EXIT
fetch_from_npm
has_apt || { skip 'this is not a Debian or Ubuntu system'; chmod -R a+rX "$prefix"; exit 0; }
missing=
for package in "${packages[@]}"; do
	[ -e "$prefix/.have/$package" ] || missing=1
done
if [ -n "$missing" ]; then
	echo "packages: fetching programs of the distribution into $prefix" >&2
	if make_lists "$work/apt" deb >>"$work/out" 2>&1; then
		fetch
	else
		skip 'there are no lists of packages'
	fi
fi
chmod -R a+rX "$prefix"
