// Package principal is the hub: it follows the registry of agents, and keeps one session
// with each of them, which keeps the hub's store in step with that agent's. Which objects
// are whose is said by Placement, which is pure, and, where it is their destination that says
// which agent has an Application, by an allotment: it shows each agent what is its own, and with
// custody sees to it that one which is aimed at another agent is never at two.
package principal
