//go:build race

package natslink

// fleetSize is what a process that looks for races can start in reasonable time.
const fleetSize = 50
