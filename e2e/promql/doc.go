// Package promql holds what deploy/monitoring shows and warns of against the table of metrics,
// with the parser of Prometheus itself. Everything is in its tests.
//
// It is a module of its own, because that parser comes with all of Prometheus. Run it by
//
//	task monitoring
package promql
