package telemetry

import "github.com/prometheus/client_golang/prometheus"

// CredentialFile is what is known of one file of credentials.
type CredentialFile struct {
	// Name comes from the program.
	Name string
	// Stale says that the file is not what is in force, because it could not be read or
	// used.
	Stale bool
}

// WatchCredentials adds the files of credentials to the metrics. read is called once for each
// collection.
func (m *Metrics) WatchCredentials(read func() []CredentialFile) {
	m.register.MustRegister(newListed(read, []string{"file"}, func(f *CredentialFile) []string { return []string{f.Name} }, []listedMetric[CredentialFile]{
		{prometheus.GaugeValue, "headgate_credentials_stale", "1 while a file of credentials is not what is in force because it could not be read or used, else 0.", func(f *CredentialFile) float64 { return oneIf(f.Stale) }, nil},
	}...))
}
