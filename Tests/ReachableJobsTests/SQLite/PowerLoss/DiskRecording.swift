#if SQLite
import CRecordingVFS
import Foundation
import ReachabilityTesting
import TestSupport

/// Records the writes of SQLite to the database files of a directory.
final class DiskRecording: Sendable {
    enum Operation: Sendable {
        /// The file is created if it is missing.
        case open(String)
        case write(String, offset: Int, [UInt8])
        case truncate(String, size: Int)
        case sync(String, withDirectory: Bool)
        case delete(String, syncsDirectory: Bool)
    }

    struct Failure: Error {
        var errno: Int32
    }

    private let recorded = Recorder<Operation>()

    /// Begins to record; databases that are open already are not recorded.
    init(_ directory: String) throws {
        let code = crecordingvfs_begin(
            directory,
            { context, operation in
                Unmanaged<DiskRecording>.fromOpaque(context).takeUnretainedValue().note(operation.pointee)
            }, Unmanaged.passUnretained(self).toOpaque())
        if code < 0 { throw Failure(errno: -code) }
    }

    deinit { crecordingvfs_end(Unmanaged.passUnretained(self).toOpaque()) }

    /// The operations so far.
    var operations: [Operation] { recorded.value }

    /// The number of operations so far.
    var count: Int { recorded.value.count }

    private func note(_ operation: crecordingvfs_operation) {
        let name = String(cString: operation.name)
        let new: Operation? =
            switch operation.kind {
            case CRECORDINGVFS_OPEN: .open(name)
            case CRECORDINGVFS_WRITE:
                .write(
                    name, offset: Int(operation.offset),
                    [UInt8](UnsafeRawBufferPointer(start: operation.bytes, count: operation.length)))
            case CRECORDINGVFS_TRUNCATE: .truncate(name, size: Int(operation.offset))
            case CRECORDINGVFS_SYNC: .sync(name, withDirectory: operation.syncs_directory)
            case CRECORDINGVFS_DELETE: .delete(name, syncsDirectory: operation.syncs_directory)
            default: nil
            }
        if let new { recorded.record(new) }
    }
}
#endif
