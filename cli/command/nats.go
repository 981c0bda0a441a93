package command

import (
	"fmt"
	"math"
	"net"
	"strconv"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

// natsPort is where a principal listens for leaf nodes unless it is told otherwise.
const natsPort = 7422

// natsClientPort is where it is suggested to listen for agents without a server of their own.
const natsClientPort = 4222

// natsWebsocketPort is where it is suggested to listen for them by websocket.
const natsWebsocketPort = 8444

// mostMiB is the most of them that are counted, in bytes, twice over and with replicas.
const mostMiB = math.MaxInt64 >> 20 >> 4

// natsFlags are those of either end of the transport over NATS.
func natsFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("nats-store-dir", "", "/var/lib/argocd-agent", "the `folder` in which messages are kept"),
		f.Int("nats-quota", "", natslink.DefaultQuota>>20, mebibytes, "how many `MiB` the messages of one agent may take, in each direction"),
		f.Int("nats-max-store", "", 0, mebibytes, "how many `MiB` all messages may take; 0 is no bound beyond the quotas"),
		f.String("nats-monitor-listen", "", "", "a loopback `address` for the NATS server's own monitoring; empty is off"),
	}
}

// mebibytes is the shell.Check of a number of them, whatever the disk has.
func mebibytes(flag string, v int) error {
	switch {
	case v < 0:
		return &shell.UsageError{Where: "--" + flag, What: fmt.Sprintf("%d is below zero", v), Advice: "write a number of MiB"}
	case v > mostMiB:
		return &shell.UsageError{Where: "--" + flag, What: fmt.Sprintf("%d MiB are more than any server has", v), Advice: "write a smaller number"}
	}
	return nil
}

// natsCommon is what the ends have in common. They keep messages in dir.
func natsCommon(c *cli.Context, dir string, log *zap.Logger) (natslink.Common, error) {
	if err := checkQuota(c, dir); err != nil {
		return natslink.Common{}, err
	}
	monitor, err := loopback(c, "nats-monitor-listen")
	if err == nil {
		err = apartFromHealth(c, "nats-monitor-listen", monitor)
	}
	return natslink.Common{
		StoreDir:      dir,
		Quota:         int64(c.Int("nats-quota")) << 20,
		MaxStore:      int64(c.Int("nats-max-store")) << 20,
		MonitorListen: monitor,
		Presence:      transport.Presence{Version: version(), Oldest: wire.Oldest, Newest: wire.Newest},
		Logger:        quiet(log, natsAdvice()),
		Alarms:        log,
	}, err
}

// checkQuota refuses a quota that cannot work: one that a message may exceed, or that the
// disk does not have, unless it is elsewhere.
func checkQuota(c *cli.Context, dir string) error {
	const least = (natslink.MinQuota + 1<<20 - 1) >> 20
	bad := func(what, advice string) error {
		return &shell.UsageError{Where: "--nats-quota", What: fmt.Sprintf("%d "+what, c.Int("nats-quota")), Advice: advice}
	}
	disk, err := natslink.Capacity(dir)
	switch quota := c.Int("nats-quota"); {
	case quota < least:
		return bad("MiB do not hold the largest message", fmt.Sprintf("write at least %d", least))
	case dir != "" && err == nil && uint64(quota) > disk>>20: // what is wrong otherwise the store says itself
		return bad(fmt.Sprintf("MiB are more than the %d that the disk of %s has", disk>>20, dir), "write a number of MiB that it has, or name a folder on another disk")
	}
	return nil
}

// apartFromHealth refuses that the probes be served on the port of another address.
func apartFromHealth(c *cli.Context, flag, address string) error {
	health := c.Int("healthz-port")
	if _, port, err := net.SplitHostPort(address); err != nil || health == 0 || port != strconv.Itoa(health) {
		return nil
	}
	return &shell.UsageError{Where: "--healthz-port", What: fmt.Sprintf("%d is the port of --%s", health, flag), Advice: "choose another for one of them"}
}

// loopback returns the value of a flag that is an address of the loopback interface, "" if
// the flag is empty.
func loopback(c *cli.Context, flag string) (string, error) {
	address, err := shell.Address(c, flag)
	if err != nil || address == "" {
		return "", err
	}
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return "", &shell.UsageError{Where: "--" + flag, What: fmt.Sprintf("%q can be reached from outside", address), Advice: "write 127.0.0.1:port"}
	}
	return address, nil
}

// natsStore is natsCommon of an end that runs a server.
func natsStore(c *cli.Context, log *zap.Logger) (natslink.Common, error) {
	dir, err := shell.Needed(c, "nats-store-dir", "name a folder that the program can write to")
	if err != nil {
		return natslink.Common{}, err
	}
	return natsCommon(c, dir, log)
}

func natsHub(c *cli.Context, log *zap.Logger) (newHub, error) {
	if err := natsApart(c); err != nil {
		return nil, err
	}
	if c.String(natsURL) != "" {
		return natsElsewhere(c, log)
	}
	common, err := natsStore(c, log)
	if err != nil {
		return nil, err
	}
	listen, err := doorOf(c, "nats-leaf-listen", natsPort)
	if err != nil {
		return nil, err
	}
	client, err := optionalDoor(c, "nats-client-listen")
	if err != nil {
		return nil, err
	}
	websocket, err := optionalDoor(c, "nats-websocket-listen")
	if err != nil {
		return nil, err
	}
	return func(own *identity.Credentials, method identity.Method, met strangers) (transport.Hub, error) {
		if err := headed("--auth", own); err != nil {
			return nil, err
		}
		return natslink.NewHub(natslink.HubConfig{Common: common, Listen: listen, ClientListen: client, WebsocketListen: websocket, Credentials: own, Authenticate: method.Prove, Strangers: met})
	}, nil
}

func natsLeaf(c *cli.Context, log *zap.Logger) (newDialer, error) {
	common, err := natsStore(c, log)
	if err != nil {
		return nil, err
	}
	to, err := wayOf(c, standards()["nats"])
	if err != nil {
		return nil, err
	}
	says, err := wishOf(c)
	if err != nil {
		return nil, err
	}
	return func(own *identity.Credentials) (transport.Dialer, error) {
		if err := headed("--creds", own); err != nil {
			return nil, err
		}
		return natslink.NewLeaf(natslink.LeafConfig{Common: common, Agent: agentName(c, own), Connect: to.address, Proxy: to.proxy, Websocket: to.websocket, Credentials: own, Says: says})
	}, nil
}

// natsThin is the end of an agent that runs no server.
func natsThin(c *cli.Context, log *zap.Logger) (newDialer, error) {
	if c.String("nats-monitor-listen") != "" {
		return nil, &shell.UsageError{Where: "--nats-monitor-listen", What: "with --nats-mode client there is no NATS server here", Advice: "leave it out"}
	}
	common, err := natsCommon(c, stateDir(c), log)
	if err != nil {
		return nil, err
	}
	to, err := wayOf(c, standards()[natsClient])
	if err != nil {
		return nil, err
	}
	says, err := wishOf(c)
	if err != nil {
		return nil, err
	}
	return func(own *identity.Credentials) (transport.Dialer, error) {
		if err := headed("--creds", own); err != nil {
			return nil, err
		}
		return natslink.NewClient(natslink.ClientConfig{Common: common, Agent: agentName(c, own), Connect: to.address, Proxy: to.proxy, Websocket: to.websocket, Credentials: own, Says: says})
	}, nil
}

// optionalDoor returns where a principal listens for some of its agents, by a flag; "" is nowhere.
func optionalDoor(c *cli.Context, flag string) (string, error) {
	address, err := shell.Address(c, flag)
	if err != nil || address == "" {
		return "", err
	}
	return address, apartFromHealth(c, flag, address)
}

// doorOf returns where a principal listens for agents, by a flag.
func doorOf(c *cli.Context, flag string, standard int) (listen string, err error) {
	if _, err := shell.Needed(c, flag, fmt.Sprintf("write :%d", standard)); err != nil {
		return "", err
	}
	if listen, err = shell.Address(c, flag); err != nil {
		return "", err
	}
	return listen, apartFromHealth(c, flag, listen)
}

// clocks is what to do about a certificate that is not valid, or not yet, by one side's clock.
const clocks = "a certificate is not valid by the clock of the side that looks at it: compare the clocks of both sides with its dates (argocd-agentctl pki inspect), and set them right, or make another (argocd-agentctl pki issue --upsert)"

// natsAdvice says what to do about what the NATS servers complain of.
func natsAdvice() map[string]string {
	return map[string]string{
		"remote error: tls: expired certificate":                                       clocks,
		"certificate has expired or is not yet valid: current time":                    clocks,
		"Duplicate Remote LeafNode Connection":                                         "another agent has connected under this one's name and with its certificate: stop one of them, the principal's log says where both are",
		"Authorization Violation":                                                      "the principal refuses this agent: register it there (argocd-agentctl agent create), and see the principal's log",
		"failed to verify certificate: x509: certificate signed by unknown authority":  "the principal's certificate is of another CA: compare --root-ca-path on both sides",
		"failed to verify certificate: x509: certificate is (valid for|not valid for)": "the principal is reached under a name that its certificate does not have: see --server-address",
	}
}
