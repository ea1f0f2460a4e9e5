// Package browser uses the web dashboard of a real headgate with a real browser, as an
// operator does. The scripts beside it (*.mjs) drive Debian's Chromium by playwright-core.
// The screenshots that they take when they are asked to are artifacts of the tests:
//
//	go test ./test/browser -artifacts -outputdir bin
package browser
