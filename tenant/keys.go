package tenant

import "github.com/headgate/headgate/descriptor"

// TopUpName is what answers call the limit of a top-up. Its ID is no name: names go into
// metrics.
const TopUpName = "top_up"

// AppendTopUpKey appends the key of the bucket of a top-up.
func AppendTopUpKey(dst []byte, subject Subject, id string) []byte {
	dst = descriptor.AppendKeyStart(dst, descriptor.KindTopUp, "")
	dst = descriptor.AppendKeyEntry(dst, subject)
	dst = descriptor.AppendKeyEntry(dst, descriptor.Entry{Key: TopUpName, Value: id})
	return descriptor.AppendKeyEnd(dst, 0)
}

// AppendPoolKey appends the key of the bucket of a tenant's burst pool, or of the share
// of a key of it.
func AppendPoolKey(dst []byte, subject Subject, key ...descriptor.Entry) []byte {
	dst = descriptor.AppendKeyStart(dst, descriptor.KindPool, "")
	dst = descriptor.AppendKeyEntry(dst, subject)
	for _, e := range key {
		dst = descriptor.AppendKeyEntry(dst, e)
	}
	return descriptor.AppendKeyEnd(dst, 0)
}
