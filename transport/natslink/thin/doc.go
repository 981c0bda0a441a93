// Package thin plays the suites that every transport passes over agents that run no NATS server
// (natslink.Client). It is a package of its own so that it waits beside natslink's tests, and not
// behind them.
package thin
