// swift-tools-version: 6.2
import PackageDescription

// A condition's observer is no public API: the listener is compiled as if it belonged to the library's package, which SwiftPM calls
// by the name of its directory.
let directories = Context.packageDirectory.split(separator: "/")
let libraryPackage = String((directories.dropLast().last ?? "").lowercased().map { $0.isLetter || $0.isNumber ? $0 : "_" })

let package = Package(
    name: "swift-reachability-benchmarks",
    dependencies: [
        .package(name: "swift-reachability", path: "..", traits: ["PostgreSQL", "SQLite"]),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        .systemLibrary(
            name: "CLibNLRoute",
            pkgConfig: "libnl-route-3.0",
            providers: [.apt(["libnl-3-dev", "libnl-route-3-dev"])]
        ),
        // Code that driver and peers share: raw netlink, stamps in shared memory, processors and processes.
        .target(name: "CBench"),
        // The peers in C. GLib's is built by `Benchmarks/run`, where GLib is.
        .executableTarget(name: "peer-epoll", dependencies: ["CBench"]),
        .executableTarget(name: "peer-libnl", dependencies: ["CBench", "CLibNLRoute"]),
        // Us, with a stamp at each station between the kernel and a listener.
        .executableTarget(
            name: "listener", dependencies: ["CBench", .product(name: "Reachability", package: "swift-reachability")],
            packageAccess: false, swiftSettings: [.unsafeFlags(["-package-name", libraryPackage])]),
        // The server that a herd runs into.
        .executableTarget(name: "herd-server", dependencies: ["CBench"]),
        // The retry bus's queue of timers, which the library keeps to itself: links to its sources.
        .target(
            name: "RetryTimers", dependencies: [.product(name: "HeapModule", package: "swift-collections")],
            packageAccess: false, swiftSettings: [.unsafeFlags(["-package-name", libraryPackage])]),
        // The same statements as the store of durable jobs, in C.
        .systemLibrary(name: "CSQLite3", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .target(name: "CJobsFloor", dependencies: ["CSQLite3"]),
        // The machines of a site, in virtual time: the cores of their buses.
        .executableTarget(
            name: "herd-site",
            dependencies: [
                .product(name: "ReachableRetry", package: "swift-reachability"),
                .product(name: "HeapModule", package: "swift-collections"),
            ],
            packageAccess: false, swiftSettings: [.unsafeFlags(["-package-name", libraryPackage])]),
        // The commands. A herd's buses run everything in one thread, by a property of the library's package.
        .executableTarget(
            name: "bench",
            dependencies: [
                "CBench", "CJobsFloor", "RetryTimers", "herd-server", "herd-site", "listener", "peer-epoll", "peer-libnl",
                .product(name: "Reachability", package: "swift-reachability"),
                .product(name: "ReachabilityTesting", package: "swift-reachability"),
                .product(name: "ReachableJobs", package: "swift-reachability"),
                .product(name: "ReachableRetry", package: "swift-reachability"),
                .product(name: "reachability-watch", package: "swift-reachability"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            packageAccess: false, swiftSettings: [.unsafeFlags(["-package-name", libraryPackage])]),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .gnu11
)

for target in package.targets where target.type != .system {
    target.swiftSettings =
        (target.swiftSettings ?? []) + [
            .enableUpcomingFeature("ExistentialAny"),
            .enableUpcomingFeature("InternalImportsByDefault"),
            .enableUpcomingFeature("MemberImportVisibility"),
            .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
        ]
}
