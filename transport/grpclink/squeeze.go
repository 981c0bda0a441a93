package grpclink

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/grpclink/linkpb"
)

// maxPacket is more than any packet has, in bytes: the largest Message and its attributes, or
// the marks of the largest copy.
const maxPacket = 2 * transport.MaxMessage

// worthwhile is the length from which a packet is compressed.
const worthwhile = 128

// A squeezer compresses packets of tables: their values are JSON, and shrink to a fifth. What
// crosses byte streams is of any kind, often compressed already, and in a hurry: it is not.
type squeezer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newSqueezer() (*squeezer, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("grpclink: %w", err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxPacket))
	if err != nil {
		return nil, fmt.Errorf("grpclink: %w", err)
	}
	return &squeezer{e, d}, nil
}

// packet returns a Packet of frames, none of which is kept; no frames are a sign of life.
func (s *squeezer) packet(frames []byte, compress bool) *linkpb.Packet {
	if len(frames) == 0 {
		return &linkpb.Packet{}
	}
	if compress && len(frames) >= worthwhile {
		if small := s.encoder.EncodeAll(frames, make([]byte, 0, len(frames)/2)); len(small) < len(frames) {
			return &linkpb.Packet{Of: &linkpb.Packet_Zstd{Zstd: small}}
		}
	}
	return &linkpb.Packet{Of: &linkpb.Packet_Frames{Frames: frames}}
}

// open returns the frames of a Packet.
func (s *squeezer) open(p *linkpb.Packet) ([]byte, error) {
	switch of := p.GetOf().(type) {
	case nil:
		return nil, nil
	case *linkpb.Packet_Frames:
		return of.Frames, nil
	case *linkpb.Packet_Zstd:
		frames, err := s.decoder.DecodeAll(of.Zstd, nil)
		if err != nil {
			return nil, fmt.Errorf("grpclink: decompress a packet: %w", err)
		}
		return frames, nil
	}
	return nil, fmt.Errorf("grpclink: a packet of kind %T is out of place", p.GetOf())
}
