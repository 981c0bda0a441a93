// Package principal is the hub: it follows the registry of agents, and keeps one session
// with each of them, which keeps the hub's store in step with that agent's. Which objects
// are whose is said by Placement, which is pure.
package principal
