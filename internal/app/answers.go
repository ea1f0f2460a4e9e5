package app

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/keyfile"
)

// answerOptions returns what clients are told over HTTP.
func answerOptions(s *config.Settings) (httpanswer.Options, error) {
	generation, err1 := httpanswer.ParseGeneration(s.Headers)
	reset, err2 := httpanswer.ParseResetFormat(s.XRateLimitReset)
	body, err3 := httpanswer.ParseBody(s.Body)
	partition, err4 := partitionKey(s.PartitionKey)
	return httpanswer.Options{
			Generation: generation, OmitX: !s.XRateLimit, Reset: reset, Body: body,
			WindowReset: s.Reset == "window", Jitter: httpanswer.Jitter{Share: s.RetryJitter},
			PartitionKey: partition, DecisionID: s.DecisionID,
		},
		errors.Join(err1, err2, err3, err4)
}

// partitionKey reads the key of partition keys, nil for none.
func partitionKey(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	keys, err := keyfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("--partition-key: %w", err)
	}
	return []byte(keys[0].Reveal()), nil
}
