package admin

import (
	"fmt"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// otherMode says that an agent runs in another mode than it is registered in, for then each side
// waits for what the other is to write, and nothing fails. It says nothing of an agent whose
// program is too old to tell its mode.
func otherMode(registered resource.Mode, told string) string {
	runs, ok := resource.ParseMode(told)
	if !ok || runs == registered {
		return ""
	}
	return fmt.Sprintf("it runs as %s and is registered as %s, so that neither side has what is the other's: start it with --agent-mode %[2]s (agent.mode), or delete it here and create it again with --mode %[1]s",
		runs, registered)
}
