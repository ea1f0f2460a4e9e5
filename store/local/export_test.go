package local

// MaxScaled is maxScaled.
const MaxScaled = maxScaled

// Scaled counts the divided limits that are kept.
func (s *Store) Scaled() (n int) {
	s.scaled.Range(func(any, any) bool { n++; return true })
	return n
}
