// Package denialog writes a log line of some denials.
package denialog
