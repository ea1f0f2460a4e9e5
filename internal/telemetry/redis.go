package telemetry

// RedisCommand is how often clients of Redis have sent a command.
type RedisCommand struct {
	// Command names it: it comes from the program.
	Command string
	Count   uint64
}

// WatchRedis adds what clients of Redis have sent to the metrics. read is called once for each
// collection.
func (m *Metrics) WatchRedis(read func() []RedisCommand) {
	m.register.MustRegister(newListed(read, []string{"command"}, func(c *RedisCommand) []string { return []string{c.Command} }, []listedMetric[RedisCommand]{
		{totalValue, "headgate_redis_commands_total", "Commands at --redis-addr, by name; other is all that are not known, malformed what is no command.", func(c *RedisCommand) float64 { return float64(c.Count) }, nil},
	}...))
}
