#!/usr/bin/env bash
# Record real Nsight Compute reports and the console output of its failures; needs ncu, python3 with CuPy and a GPU.
#   bash tests/data/ncu/record.sh OUTPUT_FOLDER [NAME…]     leaves OUTPUT_FOLDER/recorded.tar.gz; NAMEs record no others
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
only=" $* "
export CUPY_ACCELERATORS=""   # CUB's module alone would make the reports 14 MB
work=/tmp/record               # a fixed folder: its path ends up in the reports
rm -rf "$work"
mkdir -p "$work/recorded"
cd "$work/recorded"
cp "$here/record_target.py" "$work"
target="$work/record_target.py"
python=$(command -v python3)
study=launch__grid_dim_z,gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed,launch__shared_mem_per_block_dynamic,smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio
facts=gpu__time_duration.sum,launch__registers_per_thread,launch__shared_mem_per_block_static,launch__occupancy_limit_blocks,launch__occupancy_limit_registers,launch__occupancy_limit_shared_mem,launch__occupancy_limit_warps,launch__waves_per_multiprocessor
instructions=smsp__inst_executed.sum,sass__inst_executed_per_opcode,smsp__sass_inst_executed_op_global_ld.sum,smsp__sass_inst_executed_op_global_st.sum,smsp__sass_inst_executed_op_shared_ld.sum,smsp__sass_inst_executed_op_shared_st.sum,l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio,l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio,smsp__average_warp_latency_per_inst_issued.ratio,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio
memory=dram__bytes_read.sum,dram__bytes_write.sum,lts__t_sectors_op_read.sum,lts__t_sector_hit_rate.pct,l1tex__t_sector_hit_rate.pct,dram__throughput.avg.pct_of_peak_sustained_elapsed
base="ncu --target-processes application-only --replay-mode kernel --clock-control none --nvtx"
include="regex:cuprof-.+/"

# play NAME COMMAND… : keep stdout, stderr, exit code, seconds and the exact arguments
play() {
    local name=$1; shift
    if [ "$only" != "  " ] && [ "${only/ $name /}" = "$only" ]; then return; fi
    printf '%q ' "$@" >"$name.command"
    local start; start=$(date +%s.%N)
    timeout -k 5 60 "$@" >"$name.stdout" 2>"$name.stderr"
    echo $? >"$name.exit"
    echo "$(date +%s.%N) - $start" | bc >"$name.seconds" 2>/dev/null
    echo "$name: exit $(cat "$name.exit") in $(cat "$name.seconds") s, report $(stat -c %s "$name.ncu-rep" 2>/dev/null || echo none)"
    tail -n 3 "$name.stdout" "$name.stderr" | cut -c1-200
}
raw() { [ -e "$1.ncu-rep" ] || return; ncu --import "$1.ncu-rep" --page raw --csv --print-units base >"$1.raw.csv" 2>"$1.raw.stderr"; }

ncu --version >version.txt 2>&1
ncu --help >help.txt 2>&1
ncu --list-sets >sets.txt 2>&1
ncu --list-sections >sections.txt 2>&1
ncu --query-metrics --chip gh100 >query_metrics.txt 2>&1
ncu --query-metrics-collection launch --query-metrics --chip gh100 >query_launch.txt 2>&1
"$python" "$target" all >/dev/null 2>warm_up.stderr   # CuPy's own caches

play study_cold $base --nvtx-include "$include" --cache-control all --metrics $study,$facts --force-overwrite --export study_cold "$python" "$target" all
play study_hot $base --nvtx-include "$include" --cache-control none --metrics $study,$facts --force-overwrite --export study_hot "$python" "$target" all
play study_weighted $base --nvtx-include "$include" --cache-control all --metrics $study,$facts,smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum --force-overwrite --export study_weighted "$python" "$target" all
play study_alone $base --nvtx-include "$include" --cache-control all --metrics $study --force-overwrite --export study_alone "$python" "$target" one
play memory_cold $base --nvtx-include "$include" --cache-control all --metrics $memory,$facts --force-overwrite --export memory_cold "$python" "$target" read
play memory_hot $base --nvtx-include "$include" --cache-control none --metrics $memory,$facts --force-overwrite --export memory_hot "$python" "$target" read
play memory_hot_lean $base --nvtx-include "$include" --cache-control none --metrics $memory,$facts --force-overwrite --export memory_hot_lean "$python" "$target" read lean
play memory_hot_application ncu --target-processes application-only --replay-mode application --clock-control none --nvtx --nvtx-include "$include" --cache-control none --metrics $memory,$facts --force-overwrite --export memory_hot_application "$python" "$target" read lean
play memory_hot_one_pass $base --nvtx-include "$include" --cache-control none --metrics dram__bytes_read.sum --force-overwrite --export memory_hot_one_pass "$python" "$target" read lean
play instructions $base --nvtx-include "$include" --cache-control all --metrics $instructions,$facts --force-overwrite --export instructions "$python" "$target" two_then_idle
play full $base --nvtx-include "$include" --cache-control all --set full --force-overwrite --export full "$python" "$target" one
play sections $base --nvtx-include "$include" --cache-control all --section SpeedOfLight --section Occupancy --section LaunchStats --metrics $study --force-overwrite --export sections "$python" "$target" one
for name in study_cold study_hot study_weighted study_alone memory_cold memory_hot memory_hot_lean memory_hot_application memory_hot_one_pass instructions full sections; do raw $name; done

play outside $base --nvtx-include "$include" --cache-control all --metrics $study --force-overwrite --export outside "$python" "$target" stray
play unknown_metric $base --nvtx-include "$include" --cache-control all --metrics $study,dram__bytes_raed.sum,sm__nonsense.avg --force-overwrite --export unknown_metric "$python" "$target" one
play unknown_section $base --nvtx-include "$include" --cache-control all --section Nonsense --force-overwrite --export unknown_section "$python" "$target" one
play unknown_option $base --nonsense --export unknown_option "$python" "$target" one
play missing_target $base --nvtx-include "$include" --metrics $study --force-overwrite --export missing_target /nonexistent/python "$target" one
play target_fails $base --nvtx-include "$include" --metrics $study --force-overwrite --export target_fails "$python" -c 'raise SystemExit(3)'
play target_killed $base --nvtx-include "$include" --metrics $study --force-overwrite --export target_killed "$python" -c "import sys, os, signal; sys.argv = ['t', 'one']; exec(open('$target').read()); os.kill(os.getpid(), signal.SIGKILL)"
play crash $base --nvtx-include "$include" --cache-control all --metrics $study --force-overwrite --export crash "$python" "$target" crash
play hang_interrupted timeout -s INT -k 8 14 $base --nvtx-include "$include" --cache-control all --metrics $study --force-overwrite --export hang_interrupted "$python" "$target" hang
play hang_terminated timeout -s TERM -k 8 14 $base --nvtx-include "$include" --cache-control all --metrics $study --force-overwrite --export hang_terminated "$python" "$target" hang
play unwritable $base --nvtx-include "$include" --metrics $study --force-overwrite --export /nonexistent/folder/report "$python" "$target" one
play exists $base --nvtx-include "$include" --metrics $study --export study_alone "$python" "$target" one
mkdir -p "$work/tiny" && mount -t tmpfs -o size=16k none "$work/tiny" 2>mount.stderr &&
    play disk_full $base --nvtx-include "$include" --metrics $study,$facts --force-overwrite --export "$work/tiny/report" "$python" "$target" all
ls -l "$work/tiny" >disk_full.listing 2>&1
mkdir -p /tmp/nobody && cp "$target" /tmp/nobody && chmod -R a+rwX /tmp/nobody && (cd /tmp/nobody &&
    setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all env HOME=/tmp/nobody \
        CUPY_CACHE_DIR=/tmp/nobody/cache "$python" record_target.py one >/dev/null 2>&1)
cd /tmp/nobody
play no_permission setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all env HOME=/tmp/nobody CUPY_CACHE_DIR=/tmp/nobody/cache TMPDIR=/tmp/nobody $base --nvtx-include "$include" --metrics $study --force-overwrite --export /tmp/nobody/report "$python" record_target.py one
mv no_permission.* "$work/recorded" 2>/dev/null
cd "$work/recorded"
timeout -k 2 25 $base --nvtx-include "$include" --metrics $study --force-overwrite --export "$work/first" "$python" "$target" hang >concurrent_first.stdout 2>&1 &
sleep 8
play concurrent timeout -k 2 40 $base --nvtx-include "$include" --metrics $study --force-overwrite --export concurrent "$python" "$target" one
wait
play other_profiler $base --nvtx-include "$include" --metrics $study --force-overwrite --export other_profiler "$python" -c "
import torch, sys
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
    torch.ones(8, device='cuda').sum().item()
    sys.argv = ['t', 'one']; exec(open('$target').read())"
play other_ncu ncu --target-processes all --clock-control none --metrics $study --force-overwrite --export other_outer ncu --target-processes application-only --clock-control none --metrics $study --force-overwrite --export other_inner "$python" "$target" one
# Which filters let a range in: the forms that the command builder might use.
for form in "cuprof-$(printf '1%.0s' {1..32})/" "regex:cuprof-[0-9a-f]+/" "regex:^cuprof-.+/" "regex:cuprof-/"; do
    name=filter_$(echo "$form" | md5sum | cut -c1-6)
    echo "$form" >"$name.form"
    play "$name" $base --nvtx-include "$form" --metrics launch__grid_dim_z --force-overwrite --export "$name" "$python" "$target" one
done
umount "$work/tiny" 2>/dev/null
rm -f filter_*.ncu-rep
head -c 3000 study_hot.ncu-rep >truncated.ncu-rep
ls -l
tar -C "$work" -czf "$out/recorded.tar.gz" recorded
ls -l "$out"
