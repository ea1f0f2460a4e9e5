package identity

import (
	"net/http"
	"testing"
)

func BenchmarkClientIP(b *testing.B) {
	c := newClientIP(b, ourProxies)
	r := from("10.0.0.1:99", xff, "1.1.1.1, 203.0.113.9, 10.2.3.4")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Addr(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	h := newHasher(b)
	b.ReportAllocs()
	for b.Loop() {
		h.APIKey("sk_live_0123456789abcdef")
	}
}

func BenchmarkTemplates(b *testing.B) {
	set := newTemplates(b, "/users", "/users/{id}", "/users/{id}/posts", "/users/{id}/posts/{post}", "/orders/{id}")
	b.ReportAllocs()
	for b.Loop() {
		set.Match("/users/12345/posts/67")
	}
}

func BenchmarkExtract(b *testing.B) {
	token := "Bearer " + sign(b, signers().ec, `{"alg":"ES256","kid":"e"}`, claims())
	for name, r := range map[string]*http.Request{
		"address": get("/users/7"), "api_key": get("/users/7", "X-Api-Key", "good"),
		"token_again": get("/users/7", "Authorization", token), "token_first": get("/users/7", "Authorization", token),
	} {
		b.Run(name, func(b *testing.B) {
			o := platform(b)
			if name == "token_first" {
				o.Tokens.cache = newTokenCache(0)
			}
			e, err := NewExtractor(o)
			if err != nil {
				b.Fatal(err)
			}
			var id Identity
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Extract(r, noon, &id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
