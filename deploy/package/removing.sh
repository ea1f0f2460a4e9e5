#!/bin/sh
# Runs before the package is removed ("remove" for Debian, 0 for RPM), and does nothing before
# an upgrade.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now headgate.service
	fi
	;;
esac
