// Package dashboard serves the web dashboard.
package dashboard
