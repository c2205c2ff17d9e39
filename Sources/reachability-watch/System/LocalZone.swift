import Glibc

/// How many seconds the clocks of the user's time zone (TZ, or /etc/localtime) are ahead of UTC at a moment (localtime_r(3)).
func localOffset(at time: Duration) -> Int {
    var seconds = time_t(time.components.seconds)
    var broken = tm()
    return localtime_r(&seconds, &broken) == nil ? 0 : broken.tm_gmtoff
}
