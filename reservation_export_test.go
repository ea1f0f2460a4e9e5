package headgate

// Grafted is r with what other says that it has charged.
func Grafted(r, other Reservation) Reservation {
	r.charged = other.charged
	return r
}
