package conn

// HashSlots is the number of hash slots of a cluster.
const HashSlots = 1 << 14

// HashSlot returns the hash slot, below HashSlots, of a key that is text or has it as
// its hash tag.
func HashSlot(text string) uint16 { return crc16(text) % HashSlots }

// crc16 is the checksum that Redis Cluster prescribes: CRC-16/XMODEM, polynomial
// 0x1021, high bit first, starting from 0.
func crc16(text string) uint16 {
	var crc uint16
	for i := range len(text) {
		crc ^= uint16(text[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
