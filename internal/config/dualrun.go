package config

import "errors"

// DualRun are the settings of a dual run: Headgate beside the rate limit service that it is to
// replace.
type DualRun struct {
	DualRun StoreURL `group:"answers" name:"dual-run" placeholder:"URL" help:"Answer Envoy by an existing rate limit service, grpc://host:8081 or grpcs://host:8081?ca=FILE, and decide the same requests by these rules beside it, to see what differs: /dual-run of --ops-addr, headgate_dual_run_* in the metrics, and a verdict at the end. Nothing of these rules is enforced over gRPC meanwhile. Default: off."`
}

// Beside reports whether there is a dual run.
func (d *DualRun) Beside() bool { return d.DualRun != (StoreURL{}) }

func (d *DualRun) validate(s *Serve) error {
	if !d.Beside() {
		return nil
	}
	return errors.Join(
		d.DualRun.checkScheme("dual-run", "grpc", "grpcs"),
		unused("grpc-addr", "Envoy asks at no port", given{"dual-run", s.GRPCAddr == ""}),
	)
}
