package importer

import (
	"slices"
	"strings"
)

// kongLimits reports whether the name of a plugin says that it limits.
func kongLimits(name string) bool {
	return slices.ContainsFunc([]string{"limit", "throttl", "quota", "service-protection"}, func(word string) bool {
		return strings.Contains(strings.ToLower(name), word)
	})
}

// kongOthers are the plugins that come with Kong and limit no requests
// (https://developer.konghq.com/plugins/). Whatever is not among them is listed.
var kongOthers = strings.Fields(`
	ace acl acme ai-aws-guardrails ai-azure-content-safety ai-gcp-model-armor ai-lakera-guard ai-llm-as-judge ai-mcp-oauth2
	ai-mcp-proxy ai-prompt-compressor ai-prompt-decorator ai-prompt-guard ai-prompt-template ai-proxy ai-proxy-advanced
	ai-rag-injector ai-request-transformer ai-response-transformer ai-sanitizer ai-semantic-cache ai-semantic-prompt-guard
	ai-semantic-response-guard app-dynamics aws-lambda azure-functions basic-auth bot-detection canary confluent
	confluent-consume correlation-id cors datadog datakit degraphql exit-transformer file-log forward-proxy
	graphql-proxy-cache-advanced grpc-gateway grpc-web header-cert-auth hmac-auth http-log injection-protection
	ip-restriction jq json-threat-protection jwe-decrypt jwt jwt-signer kafka-consume kafka-log kafka-upstream key-auth
	key-auth-enc ldap-auth ldap-auth-advanced loggly mocking mtls-auth oas-validation oauth2 oauth2-introspection opa
	openid-connect opentelemetry post-function pre-function prometheus proxy-cache proxy-cache-advanced redirect
	request-callout request-termination request-transformer request-transformer-advanced request-validator
	response-transformer response-transformer-advanced route-by-header route-transformer-advanced saml session
	standard-webhooks statsd statsd-advanced syslog tcp-log tls-handshake-modifier tls-metadata-headers udp-log
	upstream-oauth upstream-timeout vault-auth websocket-validator xml-threat-protection zipkin`)
