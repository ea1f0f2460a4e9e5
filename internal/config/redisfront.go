package config

// RedisFront is the setting of the way in by the protocol of Redis.
type RedisFront struct {
	RedisAddr string `group:"listen" placeholder:"ADDR" help:"Address for clients of Redis: CL.THROTTLE, as redis-cell has it, and HEADGATE.CHECK, which asks the rules. host:port, or unix:///path. Default: off."`
}

func (r *RedisFront) validate() error { return optionalAddress("redis-addr", r.RedisAddr) }
