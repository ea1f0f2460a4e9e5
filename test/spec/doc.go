// Package spec has the protocols between regions as specifications that can be run, in the language
// Quint: shared.qnt is what store/totals does, leased.qnt what store/regional does. They stand
// beside the code and know nothing of it, so that the protocol can be read, and changed, before
// the code is. Its tests simulate them; the code itself is gone through by the explorations
// in store/totals and store/regional.
package spec
