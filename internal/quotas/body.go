package quotas

import (
	"encoding/json"

	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// EncodeAccount returns what a is beside its subject, as DecodeAccount reads it. Equal
// accounts have equal texts.
func EncodeAccount(a *tenant.Account) ([]byte, error) {
	l := lineOfAccount(a)
	return json.Marshal(&l.Document)
}

// DecodeAccount is the inverse of EncodeAccount. A text that is none of an account is an
// error.
func DecodeAccount(subject tenant.Subject, text []byte) (tenant.Account, error) {
	var d Document
	if err := decodeKept(text, &d); err != nil {
		return tenant.Account{}, err
	}
	r := sqltenant.Record{Subject: subject}
	if err := d.Record(&r, nil); err != nil {
		return tenant.Account{}, err
	}
	return r.Account()
}
