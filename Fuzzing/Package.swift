// swift-tools-version: 6.2
import PackageDescription

// The fuzzers. A separate package, because a dependency must not use their unsafe flags. `run` builds them.

let package = Package(
    name: "fuzzing",
    dependencies: [.package(name: "swift-reachability", path: "..")],
    targets: [
        // The rules for any input; the tests of the package above replay the corpora to the same functions.
        .target(
            name: "Checks",
            dependencies: [
                .product(name: "Reachability", package: "swift-reachability"),
                .product(name: "ReachableRetry", package: "swift-reachability"),
            ],
            path: ".",
            exclude: ["Checks/Tests", "Corpus", "README.md", "Targets", "run"],
            // An executable's sources cannot be imported from another package: these are links.
            sources: ["Checks", "CommandLine"]
        )
    ],
    swiftLanguageModes: [.v6]
)

for name in ["frames", "recordings", "arguments"] {
    package.targets.append(
        // libFuzzer provides the main function.
        .executableTarget(
            name: name, dependencies: ["Checks"], path: "Targets/\(name)",
            swiftSettings: [.unsafeFlags(["-parse-as-library"])]))
}

for target in package.targets {
    target.swiftSettings =
        (target.swiftSettings ?? []) + [
            .enableUpcomingFeature("ExistentialAny"),
            .enableUpcomingFeature("InternalImportsByDefault"),
            .enableUpcomingFeature("MemberImportVisibility"),
            .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
        ]
}
