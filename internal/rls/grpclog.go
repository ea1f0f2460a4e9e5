package rls

import (
	"io"
	"log/slog"

	"google.golang.org/grpc/grpclog"
)

// LogErrors has the gRPC library log its errors, and nothing else, to logger; without it
// they go to standard error directly. It is for the whole process: call it before anything
// serves.
func LogErrors(logger *slog.Logger) {
	errors := slog.NewLogLogger(logger.Handler(), slog.LevelError).Writer()
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, errors))
}
