package credentials

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Params are the credentials that the query of a URL names.
type Params struct {
	TLS Files
	// PasswordFile is an absolute path; "" means none.
	PasswordFile string
}

// The names of parameters, without what tells several servers of one URL apart.
const (
	paramCA           = "ca"
	paramCert         = "cert"
	paramKey          = "key"
	paramServerName   = "server_name"
	paramMinTLS       = "min_tls"
	paramPasswordFile = "password_file"
)

// Names returns the names that Take knows, without a prefix.
func Names() []string {
	return []string{paramCA, paramCert, paramKey, paramServerName, paramMinTLS, paramPasswordFile}
}

// maxServerName bounds server_name, as DNS does.
const maxServerName = 253

// Take takes the parameters of credentials out of values: ca, cert, key, server_name,
// min_tls (1.2 or 1.3) and password_file, each with prefix before it. What is left
// there is for others. Errors name the parameter and hold a hint, and never hold a value.
func Take(values url.Values, prefix string) (Params, error) {
	var p Params
	var version string
	for _, one := range []struct {
		name string
		to   *string
	}{
		{paramCA, &p.TLS.CA}, {paramCert, &p.TLS.Cert}, {paramKey, &p.TLS.Key}, {paramServerName, &p.TLS.ServerName},
		{paramMinTLS, &version}, {paramPasswordFile, &p.PasswordFile},
	} {
		var err error
		if *one.to, err = takeOne(values, prefix+one.name); err != nil {
			return Params{}, err
		}
	}
	switch version {
	case "":
	case "1.2":
		p.TLS.MinVersion = tls.VersionTLS12
	case "1.3":
		p.TLS.MinVersion = tls.VersionTLS13
	default:
		return Params{}, fmt.Errorf("its %s%s is not a version; hint: 1.2 or 1.3", prefix, paramMinTLS)
	}
	switch {
	case (p.TLS.Cert == "") != (p.TLS.Key == ""):
		return Params{}, fmt.Errorf("it has one of %[1]scert and %[1]skey; hint: a certificate and its key go together", prefix)
	case len(p.TLS.ServerName) > maxServerName || strings.ContainsAny(p.TLS.ServerName, "/:@ \t\r\n"):
		return Params{}, fmt.Errorf("its %s%s is not the name of a host; hint: a name alone, as it stands in the server's certificate", prefix, paramServerName)
	case p.PasswordFile != "" && !filepath.IsAbs(p.PasswordFile):
		// Who takes it for the password itself does not find that in an error.
		return Params{}, fmt.Errorf("its %s%s is not an absolute path; hint: the path of a file that holds the password and nothing else", prefix, paramPasswordFile)
	}
	return p, nil
}

// takeOne takes one value, "" where there is none.
func takeOne(values url.Values, name string) (string, error) {
	list, found := values[name]
	delete(values, name)
	switch {
	case !found:
		return "", nil
	case len(list) > 1:
		return "", fmt.Errorf("it has %s twice; hint: name it once", name)
	case list[0] == "":
		return "", fmt.Errorf("its %s is empty; hint: leave it out, or give it a value", name)
	case strings.ContainsRune(list[0], 0):
		return "", fmt.Errorf("its %s holds a byte of zero; hint: it is a path or a name", name)
	}
	return list[0], nil
}
