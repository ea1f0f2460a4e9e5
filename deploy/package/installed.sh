#!/bin/sh
# Runs after the package of Debian or RPM was installed or upgraded: a service that runs is
# started anew, one that does not is left alone.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart headgate.service
fi
