package sqltenant

import "time"

// moment is an instant as a parameter of a statement; the zero time means always, or not
// known. endTerm is the same for the end of a term, of which the zero time is never.
type (
	moment  time.Time
	endTerm time.Time
)

// bind puts what a database takes in the place of instants, among the parameters of a
// statement: TIMESTAMPTZ for PostgreSQL, microseconds since 1970 for SQLite. It changes
// args.
func bind(postgres bool, args []any) []any {
	for i, arg := range args {
		switch v := arg.(type) {
		case moment:
			args[i] = boundInstant(postgres, micros(time.Time(v)))
		case endTerm:
			if args[i] = nil; !time.Time(v).IsZero() {
				args[i] = boundInstant(postgres, micros(time.Time(v)))
			}
		}
	}
	return args
}

func boundInstant(postgres bool, us int64) any {
	if postgres {
		return time.UnixMicro(us).UTC()
	}
	return us
}
