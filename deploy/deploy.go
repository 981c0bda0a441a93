// Package deploy holds the manifests by which principals and agents are installed, as they
// are applied. What they grant is what the programs need, and is looked up here. So is the
// configuration of NATS servers for them.
package deploy

import _ "embed"

var (
	//go:embed principal/rbac.yaml
	principal []byte
	//go:embed principal/autonomous/rbac.yaml
	principalOfAutonomous []byte
	//go:embed principal/self-registration/rbac.yaml
	principalRegistering []byte
	//go:embed agent/rbac.yaml
	managed []byte
	//go:embed agent/autonomous/rbac.yaml
	autonomous []byte
	//go:embed agent/destination/rbac.yaml
	destination []byte
	//go:embed agent/destination/create-namespace/rbac.yaml
	createNamespace []byte
	//go:embed agent/live/rbac.yaml
	live []byte
	//go:embed agent/live/write/rbac.yaml
	liveWrite []byte
	//go:embed agent/live/exec/rbac.yaml
	liveExec []byte
	//go:embed agent/live/secrets/rbac.yaml
	liveSecrets []byte
	//go:embed nats/server.conf
	natsServer []byte
	//go:embed nats/accounts.conf
	natsAccounts []byte
	//go:embed nats/cluster.conf
	natsCluster []byte
)

// Principal returns the rights of a principal, in YAML.
func Principal() []byte { return principal }

// PrincipalOfAutonomous returns those that it has beside them where agents are autonomous.
func PrincipalOfAutonomous() []byte { return principalOfAutonomous }

// PrincipalRegistering returns those that it has beside them where it registers agents by itself.
func PrincipalRegistering() []byte { return principalRegistering }

// Managed returns the rights of a managed agent, in YAML.
func Managed() []byte { return managed }

// Autonomous returns those of an autonomous one.
func Autonomous() []byte { return autonomous }

// Destination returns those that an agent has beside them with Applications in other namespaces
// than its own.
func Destination() []byte { return destination }

// CreateNamespace returns those that it has beside them if it makes namespaces.
func CreateNamespace() []byte { return createNamespace }

// Live returns those that it has beside them so that users of the control plane can look at
// what Applications manage.
func Live() []byte { return live }

// LiveWrite returns those that it has beside these where such users can change it.
func LiveWrite() []byte { return liveWrite }

// LiveExec returns those that it has beside these where they get into pods.
func LiveExec() []byte { return liveExec }

// LiveSecrets returns those that it has beside these where they see Secrets, with their values
// masked.
func LiveSecrets() []byte { return liveSecrets }

// NATSServer returns nats/server.conf, the configuration of a NATS server that serves a principal and
// its agents.
func NATSServer() []byte { return natsServer }

// NATSAccounts returns nats/accounts.conf, which says who is who there, unless an operator does.
func NATSAccounts() []byte { return natsAccounts }

// NATSCluster returns nats/cluster.conf, that of one of several.
func NATSCluster() []byte { return natsCluster }
