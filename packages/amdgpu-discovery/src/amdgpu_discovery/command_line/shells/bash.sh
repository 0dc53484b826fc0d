
_amd_ctk_completion() {
    local kind= below=() flags=() offers=()
    if _amd_ctk_find amd-ctk "${COMP_WORDS[@]:1:COMP_CWORD}"; then
        COMPREPLY=("${offers[@]%%:*}")
    else
        local IFS=$'\n'
        COMPREPLY=($(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" _AMD_CTK_COMPLETE=complete_bash "$1"))
    fi
}

complete -o default -F _amd_ctk_completion amd-ctk
