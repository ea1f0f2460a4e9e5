// Package deploy holds what of deploy/ starts processes against real programs: the
// composition of containers is run as processes of this machine, by its own environment.
package deploy
