// Package reservation says what a reservation is: what was asked for, what was charged
// for it in advance, and the text that carries both to whoever settles it. To charge and
// to settle is a matter of headgate.Limiter; nothing here asks a store.
package reservation
