import Glibc

/// Where the programs are that listen.
enum Programs {
    /// A program that was built beside this one.
    static func built(_ name: String) -> String {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let length = max(0, readlink("/proc/self/exe", &path, path.count))
        let own = String(decoding: path.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return own.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/") + "/" + name
    }

    /// GLib's peer, or `nil` where `run` found no GLib to build it with.
    static var glib: String? {
        let path = built("peer-glib")
        return access(path, X_OK) == 0 ? path : nil
    }

    /// The reason for the missing GLib peer.
    static let glibIsMissing = "GLib's GNetworkMonitor: not measured; libglib2.0-dev is not installed, and could not be"
    /// Python and the script of other job queues, or `nil` where `run` could not install them.
    static var jobsPeer: [String]? {
        let directory = built("jobs-peers")
        let program = ["\(directory)/bin/python3", "\(directory)/jobs.py"]
        return program.allSatisfy { access($0, R_OK) == 0 } ? program : nil
    }

    /// The reason for the missing job queues.
    static let jobsPeersAreMissing =
        "huey, persist-queue: not measured; python3 cannot make a virtual environment, or PyPI cannot be reached"
    /// Python and the script of other job queues on PostgreSQL, or `nil` where `run` could not install them.
    static var postgreSQLPeer: [String]? {
        let directory = built("postgresql-peers")
        let program = ["\(directory)/bin/python3", "\(directory)/postgresql.py"]
        return program.allSatisfy { access($0, R_OK) == 0 } ? program : nil
    }

    /// The reason for the missing job queues.
    static let postgreSQLPeersAreMissing =
        "procrastinate, pgqueuer: not measured; python3 cannot make a virtual environment, or PyPI cannot be reached"
    /// Peers that were measured elsewhere and are not part of this benchmark.
    static let othersAreMissing =
        "Go (vishvananda/netlink), Rust (rtnetlink), pyroute2: not measured; nothing of them is installed here"
}
