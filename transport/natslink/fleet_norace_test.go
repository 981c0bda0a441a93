//go:build !race

package natslink

// fleetSize is how many leaf nodes start at once.
const fleetSize = 300
