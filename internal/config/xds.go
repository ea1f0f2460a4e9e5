package config

import (
	"errors"
	"fmt"
	"strings"
)

// XDS are the settings of rules that a control plane has, by xDS. The zero value has none.
type XDS struct {
	// XDSServer is the control plane as gRPC names it; "" is none.
	XDSServer string `group:"rules" name:"xds-server" placeholder:"TARGET" help:"Control plane that has the rules, by xDS (RateLimitConfig over ADS), as gRPC names it: envoy-gateway:18001. In place of --rules. Default: none."`
	// XDSNode is the name by which the control plane knows what is for this process. The
	// default value is "default".
	XDSNode string `group:"rules" name:"xds-node" default:"default" placeholder:"NAME" help:"Name by which --xds-server knows what is for this process. Default ${default}."`
	// XDSMetadata is what else it is told of this process: name=value, with commas between.
	XDSMetadata string `group:"rules" name:"xds-metadata" placeholder:"NAME=VALUE,..." help:"What else --xds-server is told of this process. Default: nothing."`
	// XDSTLS asks it over TLS; XDSCA, XDSCert and XDSKey are files in PEM.
	XDSTLS  bool   `group:"rules" name:"xds-tls" help:"Ask --xds-server over TLS."`
	XDSCA   string `group:"rules" name:"xds-ca" placeholder:"FILE" help:"Authorities in PEM that have signed the certificate of --xds-server. Read again for every connection. Default: those of the system."`
	XDSCert string `group:"rules" name:"xds-cert" placeholder:"FILE" help:"Certificate chain in PEM that this process shows --xds-server. Read again for every connection."`
	XDSKey  string `group:"rules" name:"xds-key" placeholder:"FILE" help:"Key of --xds-cert in PEM."`
	// XDSName is the name that the certificate of the server must have; "" is the host of
	// XDSServer.
	XDSName string `group:"rules" name:"xds-server-name" placeholder:"NAME" help:"Name that the certificate of --xds-server must have. Default: its host."`
	// XDSHeaders are sent with every stream; XDSHeadersFile is a file of them.
	XDSHeaders     XDSHeaders `group:"rules" name:"xds-headers" placeholder:"NAME:VALUE,..." help:"Headers that --xds-server is sent. Who sees the command line sees them there: HEADGATE_XDS_HEADERS or --xds-headers-file keeps them."`
	XDSHeadersFile string     `group:"rules" name:"xds-headers-file" placeholder:"FILE" help:"File of headers that --xds-server is sent, such as authorization: Bearer TOKEN, one to a line. Read again for every connection."`
	// XDSMaxMessage bounds an answer, in bytes. The default value is 16 MiB.
	XDSMaxMessage int `group:"rules" name:"xds-max-message" default:"16777216" placeholder:"BYTES" help:"Longest answer of --xds-server. Default ${default}."`
}

// maxXDSMessage bounds XDSMaxMessage.
const maxXDSMessage = 1 << 30

// Pairs returns XDSMetadata, name by name.
func (x *XDS) Pairs() (map[string]string, error) {
	if x.XDSMetadata == "" {
		return nil, nil
	}
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(x.XDSMetadata, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("--xds-metadata: %.40q is no name with a value; hint: name=value,name=value", pair)
		}
		pairs[name] = value
	}
	return pairs, nil
}

func (x *XDS) validate(rules string) error {
	if x.XDSServer == "" {
		return unused("xds-server", "rules are in files", given{"xds-node", x.XDSNode != "" && x.XDSNode != defaultOf[XDS]("XDSNode")},
			given{"xds-metadata", x.XDSMetadata != ""}, given{"xds-tls", x.XDSTLS}, given{"xds-ca", x.XDSCA != ""}, given{"xds-cert", x.XDSCert != ""},
			given{"xds-key", x.XDSKey != ""}, given{"xds-server-name", x.XDSName != ""},
			given{"xds-headers", x.XDSHeaders != XDSHeaders{}}, given{"xds-headers-file", x.XDSHeadersFile != ""})
	}
	_, err := x.Pairs()
	_, headers := x.XDSHeaders.Pairs()
	return errors.Join(
		err, headers, within("xds-max-message", x.XDSMaxMessage, 1<<10, maxXDSMessage),
		refuse(rules != "", "--xds-server: --rules names files too; hint: one of the two"),
		refuse(x.XDSHeaders != (XDSHeaders{}) && x.XDSHeadersFile != "", "--xds-headers, --xds-headers-file: both; hint: one of the two"),
		alone("xds", x.XDSCert, x.XDSKey),
		refuse(!x.XDSTLS && (x.XDSCA != "" || x.XDSCert != "" || x.XDSName != ""), "--xds-ca, --xds-cert, --xds-server-name: the control plane is asked without TLS; hint: --xds-tls"),
	)
}
