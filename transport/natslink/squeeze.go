package natslink

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

const (
	vocabularyID = 1   // names it in what is compressed
	worthwhile   = 128 // from how many bytes on rows are compressed

	// maxSqueezed bounds the rows that are compressed, all but an answer that is one very large message:
	// that would hold up the answers of all other Links.
	maxSqueezed = 2 * batchBytes
)

// A squeezer compresses the rows of answers on their way. What is stored is as it was: the log is to be
// read by itself, also by others.
type squeezer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newSqueezer() (*squeezer, error) {
	words := vocabulary()
	// One encoder serves all Links, one answer at a time: each takes half a MiB of tables.
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false), zstd.WithEncoderDictRaw(vocabularyID, words))
	if err != nil {
		return nil, fmt.Errorf("natslink: compression: %w", err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxSqueezed), zstd.WithDecoderDictRaw(vocabularyID, words))
	if err != nil {
		return nil, fmt.Errorf("natslink: compression: %w", err)
	}
	return &squeezer{e, d}, nil
}

// squeeze returns rows compressed, and whether they are: those that would not shrink are not.
func (s *squeezer) squeeze(rows []byte) (small []byte, squeezed bool) {
	if len(rows) < worthwhile || len(rows) > maxSqueezed {
		return rows, false
	}
	small = s.encoder.EncodeAll(rows, make([]byte, 0, len(rows)/2))
	if len(small) >= len(rows) {
		return rows, false
	}
	return small, true
}

// open returns the rows that squeeze has compressed.
func (s *squeezer) open(small []byte) ([]byte, error) {
	rows, err := s.decoder.DecodeAll(small, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress rows: %w", err)
	}
	return rows, nil
}
