// Package envoyenv reads the environment of envoyproxy/ratelimit, so that Headgate can
// take the place of that service: with the variables of its container, and no others.
//
// Each of its 114 variables is in one table, with its type and default. A variable is
// mapped to settings of Headgate, accepted without an effect, or refused where leaving it
// out would change what clients get. Nothing is opened here, and no value that may hold a
// secret is in an error or a note.
//
// The names, types and defaults are those of envoyproxy/ratelimit at commit f2fb157 (July
// 2026). Its container takes no arguments.
package envoyenv
