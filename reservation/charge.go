package reservation

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/headgate/headgate/limit"
)

// Charge is what one bucket was charged.
type Charge struct {
	// Bucket tells the buckets of one reservation apart, see Bucket.
	Bucket [4]byte
	// Hits are from 0 to limit.MaxQuota.
	Hits int64
}

// Untold stands for all charges in a reservation that does not know them: the store and
// the rules do. Its bucket is none.
var Untold = Charge{Hits: 1}

// IsTold reports whether r says what it has charged. Where it does not, that is what its
// claims cost by the rules in force.
func (r Reservation) IsTold() bool { return r.expires != 0 && r.Charged(Untold.Bucket, 0) == 0 }

// IsCharged reports whether r says that any bucket was charged for it.
func (r Reservation) IsCharged() bool { return r.charged != "" }

// maxChargeLength bounds the bytes of one charge: four of the bucket and MaxQuota.
const maxChargeLength = 4 + 8

// Bucket returns what a Charge calls the bucket with a key.
func Bucket(key []byte) (mark [4]byte) {
	sum := sha256.Sum256(key)
	return [4]byte(sum[:])
}

// append appends c as a part of a reservation.
func (c Charge) append(dst []byte) []byte {
	dst = append(dst, c.Bucket[:]...)
	return binary.AppendUvarint(dst, uint64(c.Hits))
}

// cutCharge reads the first charge of text.
func cutCharge(text string) (c Charge, rest string, err error) {
	if copy(c.Bucket[:], text) < len(c.Bucket) {
		return c, "", fmt.Errorf("%w: cut short", ErrMalformed)
	}
	in := reader{rest: text[len(c.Bucket):]}
	hits, ok := in.uvarint()
	if !ok || hits > limit.MaxQuota {
		return c, "", fmt.Errorf("%w: cut short", ErrMalformed)
	}
	c.Hits = int64(hits)
	return c, in.rest, nil
}

// Charged returns the hits of a charge of a bucket that r says it has made, after so many
// others of that bucket; 0 where there is none.
func (r Reservation) Charged(bucket [4]byte, after int) int64 {
	for text := r.charged; text != ""; {
		c, rest, err := cutCharge(text)
		if err != nil {
			return 0
		}
		if c.Bucket == bucket {
			if after == 0 {
				return c.Hits
			}
			after--
		}
		text = rest
	}
	return 0
}
