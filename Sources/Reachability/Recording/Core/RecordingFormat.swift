/// The numbers of the file format; docs/recording.md describes it.
package enum RecordingFormat {
    /// What a file begins with.
    ///
    /// Like PNG's signature it does not survive a transfer as text unharmed.
    package static let magic: [UInt8] = [0x89] + Array("RCHR\r\n".utf8) + [0x1a]
    /// Grows when earlier readers would misunderstand a file.
    ///
    /// Version 2 holds the source, transport and port of queries; version 1 is still read.
    package static let majorVersion: UInt16 = 2
    /// The earliest version that is read.
    package static let earliestVersion: UInt16 = 1
    /// Grows when something is added that earlier readers skip.
    package static let minorVersion: UInt16 = 0
    /// The size of the file's header: magic, versions, checksum of these.
    package static let headerSize = 16

    /// What a record begins with.
    ///
    /// A reader that lost its way looks for it.
    package static let marker: [UInt8] = [0xf7, 0x52]
    /// The size of a record's header: marker, kind, length, two times, checksum of these, checksum of the payload.
    package static let recordHeaderSize = 32
    /// No payload is longer: a reader waits for no more bytes than this.
    package static let longestPayload = 16 << 20

    package enum Kind {
        package static let session: UInt16 = 1
        package static let batch: UInt16 = 2
        package static let interfaces: UInt16 = 3
        package static let route: UInt16 = 4
        package static let gap: UInt16 = 5
        package static let end: UInt16 = 6
    }

    /// A file's header.
    package static var header: [UInt8] {
        var writer = ByteWriter()
        for byte in magic { writer.append(byte) }
        writer.append(majorVersion)
        writer.append(minorVersion)
        writer.append(Checksum.of(writer.bytes))
        return writer.bytes
    }

    /// A record: its header and its payload.
    package static func record(_ kind: UInt16, now: Duration, wallTime: Duration, _ payload: [UInt8]) -> [UInt8] {
        var writer = ByteWriter()
        for byte in marker { writer.append(byte) }
        writer.append(kind)
        writer.append(UInt32(clamping: payload.count))
        writer.append(now)
        writer.append(wallTime)
        writer.append(Checksum.of(writer.bytes))
        writer.append(Checksum.of(payload))
        return writer.bytes + payload
    }
}
