package middleware

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/headgate/headgate/httplimit"
)

// withGin limits a gin engine.
func withGin(limits *httplimit.Middleware) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(ginLimits(limits))
	engine.GET("/orders/:id", func(c *gin.Context) {
		c.String(http.StatusOK, "order %s", c.Param("id"))
	})
	engine.GET("/broken", func(c *gin.Context) { c.AbortWithStatus(http.StatusInternalServerError) })
	engine.GET("/healthz", func(*gin.Context) {})
	return engine
}

// ginLimits makes a gin.HandlerFunc of limits. The rest of the chain is the
// handler that they wrap; a chain that they did not go on with is over.
func ginLimits(limits *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		outer, passed := c.Writer, false
		limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request = r
			c.Next()
			// gin answers by its own writer: Refund has to be told the status.
			w.WriteHeader(c.Writer.Status())
		})).ServeHTTP(outer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}
