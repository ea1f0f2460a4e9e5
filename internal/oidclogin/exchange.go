package oidclogin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/hideurl"
)

// maxAnswer bounds the answer to an exchange, in bytes.
const maxAnswer = 64 << 10

// given is what an issuer gives for a code or a refresh token (RFC 6749, section 5.1; OpenID
// Connect Core 1.0, section 3.1.3.3). Its access token is for asking the issuer who somebody
// is, which the ID token says already; so it is not read.
type given struct {
	ID      string `json:"id_token"`
	Refresh string `json:"refresh_token"`
}

// refused is what it answers where it gives nothing (RFC 6749, section 5.2).
type refused struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// parseGiven reads what an issuer gives.
func parseGiven(data []byte) (*given, error) {
	g := &given{}
	// The error of json may quote what it has read, and that is a token.
	if len(data) > maxAnswer || json.Unmarshal(data, g) != nil {
		return nil, errors.New("not the tokens that an issuer gives")
	}
	return g, nil
}

// parseRefused reads why it gives nothing; what is no such answer says nothing.
func parseRefused(data []byte) (r refused) {
	if len(data) > maxAnswer || json.Unmarshal(data, &r) != nil {
		return refused{}
	}
	return refused{words(r.Error), words(r.Description)}
}

// exchange asks the issuer for tokens.
func (c *Client) exchange(ctx context.Context, k *knowledge, form url.Values) (*given, error) {
	r, err := c.request(ctx, k, form)
	if err != nil {
		return nil, c.fail(Setup, "the dashboard cannot show the issuer who it is", err)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.fail(Away, "the issuer does not answer", hideurl.In(err))
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, c.fail(Away, "the issuer does not answer", err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, c.refusal(answer.StatusCode, parseRefused(data))
	}
	g, err := parseGiven(data)
	if err != nil {
		return nil, c.fail(Away, "the issuer does not answer as one", err)
	}
	c.works(Away)
	c.works(Setup)
	return g, nil
}

// request returns the request for an exchange, by which the client shows who it is (RFC 6749,
// section 2.3.1; OpenID Connect Core 1.0, section 9).
func (c *Client) request(ctx context.Context, k *knowledge, form url.Values) (*http.Request, error) {
	id, word := url.QueryEscape(c.options.ID), ""
	if c.options.SecretFile != "" {
		text, err := credentials.ReadPassword(c.options.SecretFile)
		if err != nil {
			return nil, err
		}
		word = text
	}
	inHeader := false
	switch {
	case word == "":
		form.Set("client_id", c.options.ID)
	case len(k.ClientAuth) == 0 || slices.Contains(k.ClientAuth, "client_secret_basic"):
		inHeader = true
	case slices.Contains(k.ClientAuth, "client_secret_post"):
		form.Set("client_id", c.options.ID)
		form.Set("client_secret", word)
	default:
		return nil, errors.New("the issuer takes neither client_secret_basic nor client_secret_post")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, k.token.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("no request can be made of the token endpoint")
	}
	if inHeader {
		r.SetBasicAuth(id, url.QueryEscape(word))
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	return r, nil
}

// refusal returns why an issuer gives nothing.
func (c *Client) refusal(status int, r refused) *Error {
	text := fmt.Sprintf("status %d", status)
	if r.Error != "" {
		text = r.Error
	}
	if r.Description != "" {
		text += ", " + r.Description
	}
	switch {
	case r.Error == "invalid_grant":
		return &Error{Because: Declined, Text: "the issuer does not take the code or token any more (" + text + "); hint: log in again"}
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests:
		return c.fail(Away, "the issuer cannot log anybody in for now ("+text+"); hint: try again", nil)
	}
	return c.fail(Setup, "the issuer does not take the dashboard as a client ("+text+"); hint: --dashboard-oidc-client and --dashboard-oidc-secret", nil)
}
