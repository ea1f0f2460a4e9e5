package limit

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestMuldivmodIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Lengths first, so that every width of operands is as likely.
		number := func(label string, least int64) int64 {
			bits := rapid.IntRange(0, 63).Draw(t, label+" bits")
			return max(least, rapid.Int64Range(0, math.MaxInt64).Draw(t, label)>>(63-bits))
		}
		a, b, c := number("a", 0), number("b", 0), number("c", 1)
		product := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		want, wantRest := new(big.Int).DivMod(product, big.NewInt(c), new(big.Int))
		q, r := muldivmod(a, b, c)
		if !want.IsInt64() {
			if q != math.MaxInt64 || r != 0 {
				t.Fatalf("%d*%d/%d = %d rest %d, want it saturated", a, b, c, q, r)
			}
			return
		}
		if q != want.Int64() || r != wantRest.Int64() {
			t.Fatalf("%d*%d/%d = %d rest %d, want %v rest %v", a, b, c, q, r, want, wantRest)
		}
		if muldivFloor(a, b, c) != q {
			t.Fatalf("floor is not the quotient")
		}
		if q < math.MaxInt64 && muldivCeil(a, b, c) != q+min(r, 1) {
			t.Fatalf("ceil(%d*%d/%d) = %d", a, b, c, muldivCeil(a, b, c))
		}
		checkDivisor(t, a, c)
	})
}

// checkDivisor holds the division by a reciprocal to that of the processor.
func checkDivisor(t rapid.TB, a, by int64) {
	if q, r := divisorOf(by).divmod(a); q != a/by || r != a%by {
		t.Fatalf("%d/%d = %d rest %d, want %d rest %d", a, by, q, r, a/by, a%by)
	}
}

// FuzzDivisor divides any number, and those on both sides of each multiple, by any.
func FuzzDivisor(f *testing.F) {
	for _, by := range []int64{1, 2, 3, 10, 1_000_000, 3_600_000_000, 1<<32 - 1, 1 << 32, 1<<52 - 1, 1<<62 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		for _, a := range []int64{0, 1, 1_780_315_200_000_000, 1 << 53, math.MaxInt64} {
			f.Add(a, by)
		}
	}
	f.Fuzz(func(t *testing.T, a, by int64) {
		a, by = a&math.MaxInt64, max(by&math.MaxInt64, 1)
		multiple := a - a%by
		for _, a := range []int64{a, multiple, max(multiple-1, 0), min(multiple, math.MaxInt64-1) + 1} {
			checkDivisor(t, a, by)
		}
	})
}

// TestMuldivmodOfRoundNumbers: the low word of a product that needs two may be small.
func TestMuldivmodOfRoundNumbers(t *testing.T) {
	for _, c := range [][4]int64{
		{1 << 40, 1 << 40, 1 << 20, 1 << 60},
		{1 << 32, 1 << 32, 1 << 30, 1 << 34},
		{3 << 40, 5 << 30, 1 << 31, 15 << 39},
	} {
		if q, r := muldivmod(c[0], c[1], c[2]); q != c[3] || r != 0 {
			t.Errorf("%d*%d/%d = %d rest %d, want %d", c[0], c[1], c[2], q, r, c[3])
		}
	}
}
