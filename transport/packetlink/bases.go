package packetlink

import "container/list"

// maxBases is how many bytes of records each side remembers of what has crossed one way, so
// that the next value of a key crosses as the change that it is.
const maxBases = 4 << 20

// Bases are the records that have crossed one way over one connection, as many of the last
// as there is room for. The two sides see them cross in the same order, and so remember the
// same. The zero Bases are none.
type bases struct {
	records map[string]*list.Element
	order   list.List // of base, the one that was used last at the end
	bytes   int
}

type base struct {
	key    string
	record []byte
}

// get returns the last record of a key, nil if it is not remembered.
func (s *bases) get(key string) []byte {
	if e := s.records[key]; e != nil {
		return e.Value.(base).record
	}
	return nil
}

// put remembers a record in the place of the one before of its key.
func (s *bases) put(key string, record []byte) {
	s.drop(s.records[key])
	if len(record) > maxBases/4 {
		return
	}
	if s.records == nil {
		s.records = map[string]*list.Element{}
	}
	s.records[key] = s.order.PushBack(base{key, record})
	s.bytes += len(record)
	for s.bytes > maxBases {
		s.drop(s.order.Front())
	}
}

func (s *bases) drop(e *list.Element) {
	if e == nil {
		return
	}
	b := s.order.Remove(e).(base)
	s.bytes -= len(b.record)
	delete(s.records, b.key)
}
