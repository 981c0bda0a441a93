package natslink

import (
	"context"
	"net"
)

// The addresses of a Hub are those of the server in this process. There are none if it stands on
// servers elsewhere.

// Addr waits until Run serves, and returns the address that agents connect to.
func (h *Hub) Addr(ctx context.Context) (string, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return "", err
	}
	if h.embedded == nil {
		return "", nil
	}
	host, port, err := h.leafHostPort()
	return net.JoinHostPort(host, port), err
}

// ClientAddr waits until Run serves, and returns the address that agents without a server of
// their own connect to, "" if there is none.
func (h *Hub) ClientAddr(ctx context.Context) (string, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return "", err
	}
	if h.embedded == nil {
		return "", nil
	}
	if a := h.node.current().Addr(); a != nil {
		return a.String(), nil
	}
	return "", nil
}

// WebsocketAddr waits until Run serves, and returns the address that agents connect to by
// websocket, "" if there is none.
func (h *Hub) WebsocketAddr(ctx context.Context) (string, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return "", err
	}
	if h.embedded == nil {
		return "", nil
	}
	return h.websocket, nil
}

// MonitorAddr waits until Run serves, and returns the address of the server's monitoring,
// "" if there is none.
func (h *Hub) MonitorAddr(ctx context.Context) (string, error) {
	if err := h.serving.Wait(ctx); err != nil {
		return "", err
	}
	if h.embedded == nil {
		return "", nil
	}
	return h.node.monitorAddr(), nil
}
