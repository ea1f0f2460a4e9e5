package middleware

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/headgate/headgate/httplimit"
)

// withEcho limits an echo server.
func withEcho(limits *httplimit.Middleware) http.Handler {
	e := echo.New()
	e.Use(echoLimits(limits))
	e.GET("/orders/:id", func(c echo.Context) error {
		return c.String(http.StatusOK, "order "+c.Param("id"))
	})
	e.GET("/broken", func(echo.Context) error { return echo.ErrInternalServerError })
	e.GET("/healthz", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	return e
}

// echoLimits makes an echo.MiddlewareFunc of limits. echo.WrapMiddleware does
// the same, but answers the errors of handlers after limits have ended, where
// Refund cannot see the status.
func echoLimits(limits *httplimit.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				c.SetResponse(echo.NewResponse(w, c.Echo()))
				if err := next(c); err != nil {
					c.Error(err)
				}
			})).ServeHTTP(c.Response(), c.Request())
			return nil
		}
	}
}
